"""The part of SARIF 2.1.0 that perfgate writes, as a JSON Schema: rules of the standard and of GitHub's scanning."""

TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
LOCATION = {
    "type": "object",
    "required": ["physicalLocation"],
    "properties": {
        "physicalLocation": {
            "type": "object",
            "required": ["artifactLocation", "region"],
            "properties": {
                "artifactLocation": {
                    "type": "object",
                    "required": ["uri"],
                    # relative, and a valid URI reference whatever the file is called
                    "properties": {"uri": {"type": "string", "pattern": r"^(?!/)([A-Za-z0-9._~/-]|%[0-9A-F]{2})+$"}},
                },
                "region": {
                    "type": "object",
                    "required": ["startLine"],
                    "properties": {
                        "startLine": {"type": "integer", "minimum": 1},
                        "startColumn": {"type": "integer", "minimum": 1},
                    },
                    "additionalProperties": False,
                },
            },
        }
    },
}
RULE = {
    "type": "object",
    "required": ["id", "shortDescription"],
    "properties": {
        "id": {"type": "string", "minLength": 1, "maxLength": 255},
        "shortDescription": TEXT,
        "fullDescription": TEXT,
        "defaultConfiguration": {"type": "object", "properties": {"level": LEVEL}, "additionalProperties": False},
    },
    "additionalProperties": False,
}
RESULT = {
    "type": "object",
    "required": ["ruleId", "ruleIndex", "level", "message", "locations", "partialFingerprints"],
    "properties": {
        "ruleId": {"type": "string"},
        "ruleIndex": {"type": "integer", "minimum": 0},
        "level": LEVEL,
        "message": TEXT,
        "locations": {"type": "array", "minItems": 1, "maxItems": 1, "items": LOCATION},
        "partialFingerprints": {"type": "object", "additionalProperties": {"type": "string"}},
        "properties": {"type": "object"},  # a property bag
    },
    "additionalProperties": False,
}
NOTIFICATION = {
    "type": "object",
    "required": ["message"],
    "properties": {"level": LEVEL, "message": TEXT, "locations": {"type": "array", "items": LOCATION}},
    "additionalProperties": False,
}
RUN = {
    "type": "object",
    "required": ["tool", "results"],
    "properties": {
        "tool": {
            "type": "object",
            "required": ["driver"],
            "properties": {
                "driver": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {
                        "name": {"const": "perfgate"},
                        "semanticVersion": {"type": "string"},
                        "informationUri": {"type": "string", "format": "uri"},
                        "rules": {"type": "array", "items": RULE},
                    },
                    "additionalProperties": False,
                }
            },
            "additionalProperties": False,
        },
        "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
        "invocations": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["executionSuccessful"],
                "properties": {
                    "executionSuccessful": {"type": "boolean"},
                    "exitCode": {"type": "integer"},
                    "toolExecutionNotifications": {"type": "array", "items": NOTIFICATION},
                },
                "additionalProperties": False,
            },
        },
        "results": {"type": "array", "maxItems": 25_000, "items": RESULT},
    },
    "additionalProperties": False,
}
SARIF = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "$schema": {"type": "string"},
        "version": {"const": "2.1.0"},
        "runs": {"type": "array", "minItems": 1, "maxItems": 20, "items": RUN},
    },
    "additionalProperties": False,
}

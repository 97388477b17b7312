"""Rule files in an editor: problems, completion and explanations.

`rule_text` has pure functions, which get the text of a file and a place. `server` is the language server (`perfgate
lsp`), and only it needs pygls. Lines and columns count from 0, as in the protocol, and columns are characters.
"""

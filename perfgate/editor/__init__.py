"""Rule files in an editor: pure functions from a text and a place to marks, offers and explanations, and the server.

`marks` are the problems of a text with their ranges, `offers` are the words that can follow at a place, and `hints`
explain the rule at a place. `server` is the language server (`perfgate lsp`), and the only part that needs pygls.
Lines and columns count from 0, as in the protocol, and columns are characters.
"""

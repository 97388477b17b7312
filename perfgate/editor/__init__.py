"""Rule files in an editor: pure functions from a text and a place to marks, offers and explanations, and the server.

`rule_text` has the functions. `server` is the language server (`perfgate lsp`), and the only part that needs pygls.
Lines and columns count from 0, as in the protocol, and columns are characters.
"""

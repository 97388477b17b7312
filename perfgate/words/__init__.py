"""The sentences that a user reads, by kind of message. Values in, text out; reporters place it."""

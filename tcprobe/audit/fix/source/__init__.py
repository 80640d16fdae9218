"""The user's files as fixes see them: what rests on which literal, what a size may reach, edits and their writing."""

"""One module a command; each has an `app` (Typer) and is imported when it is called."""

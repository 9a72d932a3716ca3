"""Reading and writing: tables, model files, versions; files that are complete or not there."""

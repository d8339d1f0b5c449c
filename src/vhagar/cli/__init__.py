"""The command line: one file per command, the screen, Ctrl-C, files. No mathematics."""

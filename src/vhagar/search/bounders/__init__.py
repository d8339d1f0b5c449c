"""What bounds nodes of the search besides its linear programs."""

"""Problems as files that other verifiers read."""

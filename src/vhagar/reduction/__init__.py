"""Problems as other problems: what is found there comes back as an answer to the one asked."""

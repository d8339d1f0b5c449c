"""Networks from elsewhere, and questions for other verifiers."""

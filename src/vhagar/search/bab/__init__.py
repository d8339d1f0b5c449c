"""The default engine: branch and bound on the lambda-LP, every bound by the twin dual formula."""

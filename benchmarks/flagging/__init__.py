"""The detection rate of `bench compare`."""

"""Types, IR, tracing and transformations; knows no kernel and no device."""

if __name__ != "tilewright.core":
    raise ImportError("import tilewright.core, not core: the repository root is on sys.path")

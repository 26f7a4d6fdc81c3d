"""Tilewright inside other libraries: a module for each, imported when it is asked for."""

"""The primitives, one file a family; `catalogue.ALL` lists them."""

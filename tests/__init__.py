"""The tests of Tailrace; the folders mirror the package."""

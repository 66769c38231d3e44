"""The only wing that uses torch's private APIs: turns what Dynamo does into a recording."""

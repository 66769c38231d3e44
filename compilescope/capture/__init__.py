"""The only wing that touches torch's private APIs: turns what Dynamo does into a recording."""

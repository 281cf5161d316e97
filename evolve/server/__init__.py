"""Any server that speaks the OpenAI chat-completions protocol, as a policy.

``wire`` says what goes over the line, ``client`` asks with patience, ``record`` keeps every answer
in the run and replays it, ``policy`` is what a campaign sees. The run does not train the server.
"""

from evolve.server.policy import ServerPolicy, open_server

__all__ = ["ServerPolicy", "open_server"]

"""What is asked of a broker that authenticates nobody, has no authorizer, and limits nobody."""

from __future__ import annotations

from typing import Any

from tests.compat.every_version.conversation import Conversation, versions_of

EXACT, DEFAULT, ANY = 0, 1, 2
QUOTA_FILTERS: dict[str, list[tuple[str, int, str | None]]] = {
    "of all": [],
    "of a user": [("user", EXACT, "somebody")],
    "of the user without a name": [("user", EXACT, "")],
    "of the default user": [("user", DEFAULT, None)],
    "of users' clients": [("user", ANY, None), ("client-id", ANY, None)],
    "of an address": [("ip", EXACT, "1.2.3.4")],
    "of a user at an address": [("user", ANY, None), ("ip", ANY, None)],
    "of a user twice": [("user", ANY, None), ("user", EXACT, "somebody")],
    "of no such thing": [("moon", ANY, None)],
    "of nothing": [("", ANY, None)],
    "with no such match": [("user", 7, None)],
    "with an exact match of null": [("user", EXACT, None)],
    "with a default match of a name": [("user", DEFAULT, "somebody")],
    "with any match of a name": [("user", ANY, "somebody")],
}


def ask_all(talk: Conversation) -> None:
    access_control(talk)
    authentication(talk)
    delegation_tokens(talk)
    quotas_and_credentials(talk)


def access_control(talk: Conversation) -> None:
    """There is no authorizer, so nobody can be given or denied anything."""
    for version in versions_of("DescribeAcls"):
        anything = {"resourceTypeFilter": 1, "patternTypeFilter": 1, "operation": 1, "permissionType": 1}
        talk.ask("DescribeAcls", version, **anything)
        acl = {
            "resourceType": 2,
            "resourceName": "plain",
            "principal": "User:somebody",
            "host": "*",
            "operation": 3,
            "permissionType": 3,
        }
        talk.ask("CreateAcls", version, creations=[acl, acl])
        talk.ask("DeleteAcls", version, filters=[anything])


def authentication(talk: Conversation) -> None:
    for version in versions_of("SaslHandshake"):
        for mechanism in ("PLAIN", ""):
            talk.ask("SaslHandshake", version, mechanism, mechanism=mechanism)
    for version in versions_of("SaslAuthenticate"):
        talk.ask("SaslAuthenticate", version, authBytes="AGEAYg==")
    talk.ask("Metadata", 12, "after it was refused", topics=[{"name": "plain"}])


def delegation_tokens(talk: Conversation) -> None:
    fields: dict[str, Any] = {"hmac": "AAAA", "maxLifetimeMs": 5_000, "ownerPrincipalName": "somebody"}
    for verb in ("Create", "Renew", "Expire", "Describe"):
        for version in versions_of(f"{verb}DelegationToken"):
            talk.ask(f"{verb}DelegationToken", version, **fields)


def quotas_and_credentials(talk: Conversation) -> None:
    for version in versions_of("DescribeClientQuotas"):
        for title, components in QUOTA_FILTERS.items():
            asked = [{"entityType": kind, "matchType": match, "match": name} for kind, match, name in components]
            for strict in (False, True):
                wish = f"{title}, strictly" if strict else title
                talk.ask("DescribeClientQuotas", version, wish, components=asked, strict=strict)
    for title, names in {"of all": None, "of none": [], "of two": ["a", "b"], "of one twice": ["a", "a"]}.items():
        users = None if names is None else [{"name": name} for name in names]
        talk.ask("DescribeUserScramCredentials", 0, title, users=users)

"""OAuth: how tokens are fetched and checked.

Names, types, ranges and defaults are those of Apache Kafka 4.1; the sentences are ours.
"""

from __future__ import annotations

from tailrace.settings.declare import boolean, class_name, integer, long, password, string, word_list
from tailrace.settings.definition import LOW, SettingTable
from tailrace.settings.value_range import OneOf, between


class OauthBearerSettings(SettingTable):
    """OAuth: how tokens are fetched and checked."""

    sasl_oauthbearer_jwt_retriever_class = class_name(
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever", "The Java class that fetches a token."
    )
    sasl_oauthbearer_jwt_validator_class = class_name(
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator", "The Java class that checks a token."
    )
    sasl_oauthbearer_scope = string(None, "The scope that a token is asked for.")
    sasl_oauthbearer_client_credentials_client_id = string(None, "The client id of the client credentials grant.")
    sasl_oauthbearer_client_credentials_client_secret = password(
        None, "The client secret of the client credentials grant."
    )
    sasl_oauthbearer_assertion_algorithm = string(
        "RS256", "The algorithm that assertions are signed with.", OneOf(("ES256", "RS256"), any_case=True)
    )
    sasl_oauthbearer_assertion_claim_aud = string(None, "The audience claim of an assertion.")
    sasl_oauthbearer_assertion_claim_exp_seconds = integer(
        300, "How long after its making an assertion expires.", between(0, 86400), LOW
    )
    sasl_oauthbearer_assertion_claim_iss = string(None, "The issuer claim of an assertion.")
    sasl_oauthbearer_assertion_claim_jti_include = boolean(False, "Give each assertion an id of its own.")
    sasl_oauthbearer_assertion_claim_nbf_seconds = integer(
        60, "How long before its making an assertion is already valid.", between(0, 3600), LOW
    )
    sasl_oauthbearer_assertion_claim_sub = string(None, "The subject claim of an assertion.")
    sasl_oauthbearer_assertion_file = string(None, "A file with a finished assertion.")
    sasl_oauthbearer_assertion_private_key_file = string(None, "The file with the key that signs assertions.")
    sasl_oauthbearer_assertion_private_key_passphrase = password(None, "The password of that key.")
    sasl_oauthbearer_assertion_template_file = string(
        None, "A file with claims and headers that assertions start from."
    )
    sasl_oauthbearer_scope_claim_name = string("scope", "The claim in which a token carries its scope.", None, LOW)
    sasl_oauthbearer_sub_claim_name = string("sub", "The claim in which a token carries its subject.", None, LOW)
    sasl_oauthbearer_token_endpoint_url = string(None, "Where tokens are fetched from.")
    sasl_oauthbearer_jwks_endpoint_url = string(None, "Where the keys that check tokens are fetched from.")
    sasl_oauthbearer_jwks_endpoint_refresh_ms = long(3600000, "How often those keys are fetched again.", None, LOW)
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms = long(
        100, "The first pause after those keys could not be fetched.", None, LOW
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms = long(
        10000, "The longest pause after those keys could not be fetched.", None, LOW
    )
    sasl_oauthbearer_clock_skew_seconds = integer(30, "How far the clocks of broker and issuer may differ.", None, LOW)
    sasl_oauthbearer_expected_audience = word_list(None, "The audiences of which a token has to name one.", None, LOW)
    sasl_oauthbearer_expected_issuer = string(None, "The issuer that a token has to name.", None, LOW)

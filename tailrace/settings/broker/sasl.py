"""SASL: mechanisms, logins, Kerberos and delegation tokens.

Names, types, ranges and defaults are those of Apache Kafka 4.1; the sentences are ours.
"""

from __future__ import annotations

from tailrace.settings.declare import class_name, double, integer, long, password, short, string, word_list
from tailrace.settings.definition import LOW, MEDIUM, PER_BROKER, SettingTable
from tailrace.settings.value_range import at_least


class SaslSettings(SettingTable):
    """SASL: mechanisms, logins, Kerberos and delegation tokens."""

    connections_max_reauth_ms = long(0, "How long a client may go without authenticating again; 0 for ever.")
    sasl_server_max_receive_size = integer(
        524288, "The largest SASL message that is read before a client is authenticated."
    )
    sasl_mechanism_inter_broker_protocol = string(
        "GSSAPI", "The SASL mechanism between brokers.", None, MEDIUM, PER_BROKER
    )
    sasl_enabled_mechanisms = word_list(
        ("GSSAPI",), "The SASL mechanisms that clients may use.", None, MEDIUM, PER_BROKER
    )
    sasl_server_callback_handler_class = class_name(None, "The Java class that checks credentials.")
    sasl_kerberos_principal_to_local_rules = word_list(
        ("DEFAULT",), "Rules that turn a Kerberos principal into a user.", None, MEDIUM, PER_BROKER
    )
    sasl_jaas_config = password(
        None, "Login modules and their options, in the JAAS form; per listener and mechanism.", None, MEDIUM, PER_BROKER
    )
    sasl_client_callback_handler_class = class_name(
        None, "The Java class that gives credentials for the broker's own links."
    )
    sasl_login_class = class_name(None, "The Java class that logs in.")
    sasl_login_callback_handler_class = class_name(None, "The Java class that gives credentials at login.")
    sasl_kerberos_service_name = string(None, "The Kerberos name that brokers run as.", None, MEDIUM, PER_BROKER)
    sasl_kerberos_kinit_cmd = string("/usr/bin/kinit", "The path of the kinit program.", None, MEDIUM, PER_BROKER)
    sasl_kerberos_ticket_renew_window_factor = double(
        0.8, "The share of a ticket's life after which it is renewed.", None, MEDIUM, PER_BROKER
    )
    sasl_kerberos_ticket_renew_jitter = double(
        0.05, "The random share added to the renewal time.", None, MEDIUM, PER_BROKER
    )
    sasl_kerberos_min_time_before_relogin = long(
        60000, "The least time between two renewals, in milliseconds.", None, MEDIUM, PER_BROKER
    )
    sasl_login_refresh_window_factor = double(
        0.8, "The share of a token's life after which it is refreshed.", None, MEDIUM, PER_BROKER
    )
    sasl_login_refresh_window_jitter = double(
        0.05, "The random share added to the refresh time.", None, MEDIUM, PER_BROKER
    )
    sasl_login_refresh_min_period_seconds = short(60, "The least time between two refreshes.", None, MEDIUM, PER_BROKER)
    sasl_login_refresh_buffer_seconds = short(
        300, "How long before its end a token is refreshed at the latest.", None, MEDIUM, PER_BROKER
    )
    sasl_login_connect_timeout_ms = integer(None, "How long a connection to the token's issuer may take.", None, LOW)
    sasl_login_read_timeout_ms = integer(None, "How long the token's issuer may take to answer.", None, LOW)
    sasl_login_retry_backoff_max_ms = long(10000, "The longest pause between tries to log in.", None, LOW)
    sasl_login_retry_backoff_ms = long(100, "The first pause between tries to log in.", None, LOW)
    delegation_token_secret_key = password(
        None, "The secret that delegation tokens are signed with, the same on every broker."
    )
    delegation_token_max_lifetime_ms = long(604800000, "How long a delegation token can be renewed.", at_least(1))
    delegation_token_expiry_time_ms = long(
        86400000, "How long a delegation token lives unless it is renewed.", at_least(1)
    )
    delegation_token_expiry_check_interval_ms = long(
        3600000, "How often expired delegation tokens are looked for.", at_least(1), LOW
    )

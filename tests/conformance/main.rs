//! What `rgit_transport` promises on its front page, checked under every transport.
//!
//! A promise is a function that is given a way to make transports; [`mount!`] makes a test of each, once for each transport. The servers
//! are scripted, so that they can misbehave on cue, and speak the transport's protocol. What can go wrong only in HTTP/2 stands in
//! `crates/transport-h2/tests`.

mod answers;
mod broken;
mod cancel;
mod early;
mod framing;
#[cfg(unix)]
mod persistent;
mod resend;
mod reuse;
mod support;
mod threads;
mod trust;

macro_rules! promises {
    ($mount:path; $($module:ident: $($promise:ident),* $(,)?;)*) => {
        $(mod $module {
            $(#[test]
            fn $promise() {
                crate::$module::$promise(&$mount);
            })*
        })*
    };
}

/// Every promise that can be kept and broken in any protocol, under the transport that `$mount` makes.
macro_rules! mount {
    ($name:ident = $mount:path) => {
        mod $name {
            promises! {
                $mount;
                answers:
                    any_status_is_an_answer,
                    headers_go_out_as_given_with_framing_added,
                    users_in_urls_stay_here,
                    content_is_not_decoded,
                    informational_answers_are_skipped,
                    how_it_travelled_rides_along,
                    what_is_no_request_is_refused;
                framing:
                    bodies_arrive_whole_in_the_framing_their_length_calls_for,
                    a_body_of_another_length_is_never_completed,
                    a_failing_body_is_not_the_networks_fault,
                    answers_of_any_framing_arrive_whole;
                early:
                    refusals_come_through_at_any_body_size,
                    refusals_come_through_over_tls,
                    a_success_does_not_stop_the_sending,
                    a_success_is_returned_when_the_server_takes_no_more,
                    progress_of_half_a_megabyte_is_set_aside;
                reuse:
                    an_answer_read_to_its_end_frees_its_connection,
                    the_last_byte_is_enough,
                    dropping_an_answer_ends_only_that_exchange,
                    connections_end_when_either_side_says_so,
                    what_was_authenticated_serves_nobody_else,
                    a_connection_does_not_grow_old_while_the_body_is_made;
                resend:
                    a_get_on_a_dying_connection_is_sent_again,
                    a_post_that_may_have_been_processed_is_not,
                    a_post_that_may_be_repeated_is,
                    nothing_is_sent_a_third_time,
                    new_connections_get_no_second_chance,
                    replayed_bodies_are_opened_anew;
                broken:
                    a_truncated_answer_is_an_unexpected_end,
                    a_missing_answer_fails_at_waiting,
                    silence_ends_after_the_idle_timeout,
                    steady_bytes_never_time_out,
                    an_unreachable_server_fails_at_dialling;
                trust:
                    only_known_authorities_are_trusted,
                    certificates_for_other_names_are_refused,
                    exchanges_over_tls_are_like_others,
                    a_cut_is_no_end;
                cancel:
                    a_request_that_nobody_waits_for_any_more_ends_and_is_not_repeated,
                    an_answer_that_nobody_reads_any_more_is_broken_off,
                    an_exchange_that_is_over_cannot_be_ended;
                threads:
                    answers_go_to_those_who_asked;
            }
        }
    };
}

mount!(h1 = crate::support::H1);
mount!(h2 = crate::support::H2);
mount!(auto = crate::support::AUTO);
#[cfg(unix)]
mount!(by_daemon = crate::persistent::H1);
#[cfg(unix)]
mount!(by_daemon_over_h2 = crate::persistent::H2);
mount!(auto_where_only_h2_is_spoken = crate::support::AUTO_H2);

/// What only bytes of HTTP/1.1 can do.
mod h1_only {
    promises! {
        crate::support::H1;
        answers:
            old_servers_are_understood;
        framing:
            heads_may_come_in_pieces_folded_or_with_bare_line_feeds;
        reuse:
            a_connection_that_the_server_closed_is_not_used,
            bytes_behind_an_answer_are_not_the_next_answer;
        resend:
            a_begun_answer_rules_it_out;
        broken:
            what_is_no_framing_is_invalid,
            what_is_no_answer_fails_at_receiving,
            a_head_without_end_is_given_up,
            half_a_head_is_a_failure_of_receiving;
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of the daemon on standard error, with the prefix <N> for the priority if JOURNAL_STREAM
 * shows that the journal reads it. Names of processes, paths and subjects of certificates are in
 * them: each message is escaped as a whole (escape.h), so it stays one line. Libraries do not log;
 * callers log once, with context.
 */
#pragma once

#include <syslog.h>

/* Messages less urgent than this (LOG_ERR … LOG_DEBUG) are not printed; initially LOG_INFO. */
void log_set_level(int level);
/* A prefix of every message, such as the role of the process; borrowed permanently. */
void log_set_role(const char *role);

__attribute__((format(printf, 2, 3))) void log_message(int level, const char *format, ...);
/* Logs with %m standing for -error, and returns error (a negative errno), so that callers can
 * return it. */
__attribute__((format(printf, 3, 4))) int log_errno(int level, int error, const char *format, ...);

#define log_error(...) log_message(LOG_ERR, __VA_ARGS__)
#define log_warning(...) log_message(LOG_WARNING, __VA_ARGS__)
#define log_info(...) log_message(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_message(LOG_DEBUG, __VA_ARGS__)
#define log_error_errno(error, ...) log_errno(LOG_ERR, error, __VA_ARGS__)
#define log_warning_errno(error, ...) log_errno(LOG_WARNING, error, __VA_ARGS__)

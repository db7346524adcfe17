/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of tfprofctl. argv[0] is "tfprofctl COMMAND", for messages; address is as
 * session_open() takes it. */
#pragma once

#include "cli/outcome.h"

struct daemon_address;

enum outcome command_capture(int argc, char **argv, const struct daemon_address *address);
enum outcome command_doctor(int argc, char **argv, const struct daemon_address *address);
enum outcome command_lifecycle(int argc, char **argv, const struct daemon_address *address);
enum outcome command_plan(int argc, char **argv, const struct daemon_address *address);
enum outcome command_replay(int argc, char **argv, const struct daemon_address *address);
enum outcome command_snapshot(int argc, char **argv, const struct daemon_address *address);
enum outcome command_status(int argc, char **argv, const struct daemon_address *address);
enum outcome command_stop(int argc, char **argv, const struct daemon_address *address);
enum outcome command_targets(int argc, char **argv, const struct daemon_address *address);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Host header of a request over HTTP. A web page can make a browser connect to a loopback
 * address through a name of the page's own (DNS rebinding), and then read the answer; the browser
 * sends that name.
 */
#pragma once

#include <stdbool.h>

/*
 * Whether the header, with or without a port, names this host: a loopback address, "localhost", the
 * listener's own address, or one of the names, which are separated by commas. Letter case does not
 * matter.
 */
bool host_header_is_own(const char *host, const char *own_address, const char *names);

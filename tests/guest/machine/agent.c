// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Runs shell scripts in the guest for the host, over one virtio-serial port.
 *
 * The host sends "<length>\n<script>". The agent runs it with /bin/sh, one script at a time, and sends
 * what it prints as it comes, "O <length>\n<bytes>", and at its end "X <exit code>\n" (128 + signal).
 * Lengths are decimal bytes. While the host is not connected a read returns 0, also after the machine
 * was restored from a saved state. The port sends a signal when the host connects, so that an agent
 * without a connection takes no processor time from the machine.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int port;
/* SIGIO, which stays pending until await_host() takes it. */
static sigset_t host_connects;

/* Returns when the host has connected or disconnected, or after a second. */
static void await_host(void)
{
	static const struct timespec limit = { .tv_sec = 1 };

	sigtimedwait(&host_connects, NULL, &limit);
}

static void put(const void *data, size_t length)
{
	const char *at = data;

	while (length) {
		ssize_t n = write(port, at, length);

		if (n < 0 && errno != EINTR && errno != EAGAIN)
			exit(1);
		if (n <= 0) {
			usleep(10000);
			continue;
		}
		at += n;
		length -= n;
	}
}

static char get(void)
{
	for (;;) {
		char byte;
		ssize_t n = read(port, &byte, 1);

		if (n == 1)
			return byte;
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			exit(1);
		if (n == 0)
			await_host();
	}
}

/* Sends the script's output until every process has closed the other end of the pipe. */
static void relay(int from)
{
	char bytes[4096], head[32];
	ssize_t n;

	while ((n = read(from, bytes, sizeof(bytes))) != 0) {
		if (n < 0) {
			if (errno == EINTR)
				continue;
			return;
		}
		put(head, snprintf(head, sizeof(head), "O %zd\n", n));
		put(bytes, n);
	}
}

static int run(char *script)
{
	int ends[2], status;
	pid_t child;

	if (pipe2(ends, O_CLOEXEC))
		return 126;
	child = fork();
	if (child < 0)
		return 126;
	if (!child) {
		int null = open("/dev/null", O_RDONLY);

		sigprocmask(SIG_UNBLOCK, &host_connects, NULL);
		dup2(null, 0);
		dup2(ends[1], 1);
		dup2(ends[1], 2);
		execl("/bin/sh", "sh", "-c", script, NULL);
		_exit(127);
	}
	close(ends[1]);
	relay(ends[0]);
	close(ends[0]);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int count, char **words)
{
	if (count != 2)
		return 2;
	port = open(words[1], O_RDWR | O_CLOEXEC);
	if (port < 0)
		return 1;
	sigemptyset(&host_connects);
	sigaddset(&host_connects, SIGIO);
	if (sigprocmask(SIG_BLOCK, &host_connects, NULL) || fcntl(port, F_SETOWN, getpid()) ||
	    fcntl(port, F_SETFL, fcntl(port, F_GETFL) | O_ASYNC))
		return 1;
	for (;;) {
		char head[32], *script;
		size_t length = 0, i;
		char byte;

		while ((byte = get()) != '\n')
			if (byte >= '0' && byte <= '9')
				length = length * 10 + (byte - '0');
		script = malloc(length + 1);
		if (!script)
			return 1;
		for (i = 0; i < length; i++)
			script[i] = get();
		script[length] = 0;
		put(head, snprintf(head, sizeof(head), "X %d\n", run(script)));
		free(script);
	}
}

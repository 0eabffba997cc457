/* The escape zoo: what an agent may try so that something of it outlives its job.
 *
 *   zoo FOLDER WRITTEN LAST TRICK...
 *
 * Every trick is a tree of its own, which writes a heartbeat into FOLDER/hb.TRICK until it is ended,
 * or for half a minute. When all hearts beat, FOLDER/WRITTEN is made, and the agent does its LAST:
 *
 *   exit     exits with 0
 *   deaf     waits, and ignores every signal that can be ignored
 *   kill     kills its guard, and goes on
 *   kill-at-term   kills its guard when it is told to end
 *   stop     keeps its guard stopped, from a second process, and goes on
 *   both     kills its guard and the guard's parent, which is the server
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char beat_path[4096];
static char *program;
static pid_t guard;

static void pause_ms(long ms) {
  struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  while (nanosleep(&time, &time) && errno == EINTR) {
  }
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

static void beat_once(void) {
  int file = open(beat_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0 || write(file, "x", 1) != 1) _exit(9);
  close(file);
}

static void beat(void) {
  for (double end = now() + 30; now() < end; pause_ms(20)) beat_once();
  _exit(0);
}

static void deaf(void) {
  sigset_t all;
  sigfillset(&all);
  for (int number = 1; number < 65; number++) signal(number, SIG_IGN);
  sigprocmask(SIG_BLOCK, &all, NULL);
}

static void *beat_in_thread(void *nothing) {
  beat();
  return nothing;
}

static void fork_again(int number) {
  (void)number;
  if (fork() == 0) beat();
}

/* Lives a moment: its successor is a session of its own, without an environment. */
static void storm(void) {
  deaf();
  for (double end = now() + 30; now() < end;) {
    beat_once();
    for (int twin = 0; twin < 2; twin++) {
      pid_t child = fork();
      if (child < 0) pause_ms(1);
      if (child == 0 && twin == 0) _exit(0);
      if (child == 0) {
        setsid();
        goto next;
      }
    }
    _exit(0);
  next:;
  }
}

static int in_clone(void *nothing) {
  (void)nothing;
  beat();
  return 0;
}

static void trick(const char *name) {
  static char stack[65536] __attribute__((aligned(16)));
  int hold[2];
#define IS(word) (strcmp(name, word) == 0)
  if (IS("session")) {
    setsid();
  } else if (IS("double_fork")) {
    setsid();
    if (fork()) _exit(0);
    for (int file = 0; file < 1024; file++) close(file);
    if (chdir("/")) _exit(9);
    umask(0);
  } else if (IS("deaf")) {
    setsid();
    deaf();
  } else if (IS("storm")) {
    storm();
  } else if (IS("forks_at_term")) {
    setsid();
    for (int number = 1; number < 32; number++) signal(number, fork_again);
  } else if (IS("clean_env") || IS("clean_deaf_daemon")) {
    char *argv[] = {program, "beat", beat_path, NULL}, *none[] = {NULL};
    setsid();
    if (IS("clean_deaf_daemon")) {
      deaf();
      if (fork()) _exit(0);
    }
    execve(program, argv, none);
    _exit(9);
  } else if (IS("renamed")) {
    setsid();
    prctl(PR_SET_NAME, "init) Z 1 1 (", 0, 0, 0);
  } else if (IS("own_subreaper")) {
    setsid();
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    pid_t middle = fork();
    if (middle == 0) {
      if (fork()) _exit(0);
      deaf();
      beat();
    }
    waitpid(middle, NULL, 0);
    deaf();
    beat();
  } else if (IS("pipes")) {
    /* Holds the agent's output, and a pipe to itself that never ends. */
    setsid();
    if (pipe(hold)) _exit(9);
    if (fork() == 0) {
      char byte;
      while (read(hold[0], &byte, 1) != 0) {
      }
      _exit(0);
    }
  } else if (IS("namespaces")) {
    /* Where it may not, it is a daemon like the others. */
    if (unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS) && unshare(CLONE_NEWPID)) setsid();
    if (fork()) _exit(0);
    deaf();
  } else if (IS("stopped")) {
    setsid();
    for (int count = 0; count < 5; count++) beat_once();
    deaf();
    raise(SIGSTOP);
  } else if (IS("traced")) {
    pid_t child = fork();
    if (child == 0) {
      setsid();
      beat();
    }
    deaf();
    ptrace(PTRACE_SEIZE, child, 0, PTRACE_O_TRACEEXIT);
    for (double end = now() + 30; now() < end; pause_ms(20)) waitpid(child, NULL, WNOHANG | __WALL);
    _exit(0);
  } else if (IS("cloned")) {
    /* A child of whose end its parent is not told. */
    setsid();
    clone(in_clone, stack + sizeof stack, 0, NULL);
    _exit(0);
  } else if (IS("headless")) {
    /* Looks like a zombie: its first thread has ended, the second lives. */
    pthread_t thread;
    setsid();
    deaf();
    if (pthread_create(&thread, NULL, beat_in_thread, NULL)) _exit(9);
    syscall(SYS_exit, 0);
  } else if (strcmp(name, "background")) {
    fprintf(stderr, "zoo: no trick %s\n", name);
    _exit(9);
  }
  beat();
}

static void kill_guard(int number) {
  (void)number;
  kill(guard, SIGKILL);
}

static void last(const char *word) {
  if (strcmp(word, "exit") == 0) exit(0);
  if (strcmp(word, "kill-at-term") == 0) {
    deaf();
    struct sigaction action = {.sa_handler = kill_guard};
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigaction(SIGTERM, &action, NULL);
    sigprocmask(SIG_UNBLOCK, &term, NULL);
  }
  if (strcmp(word, "stop") == 0) {
    if (fork() == 0) {
      deaf();
      setsid();
      for (double end = now() + 60; now() < end && kill(guard, SIGSTOP) == 0;) {
      }
      _exit(0);
    }
  }
  if (strcmp(word, "both") == 0) {
    char path[64], line[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", guard);
    int file = open(path, O_RDONLY);
    if (file < 0 || read(file, line, sizeof line - 1) < 1) exit(9);
    int server = 0;
    sscanf(strrchr(line, ')') + 2, "%*c %d", &server);
    /* Stopped first: it must not begin to end anybody when its server is gone. */
    kill(guard, SIGSTOP);
    if (server > 1) kill(server, SIGKILL);
  }
  if (strcmp(word, "kill") == 0 || strcmp(word, "both") == 0) kill(guard, SIGKILL);
  if (strcmp(word, "kill-at-term")) deaf();
  for (double end = now() + 60; now() < end; pause_ms(1000)) {
  }
}

int main(int count, char **words) {
  char path[4096];
  program = words[0];
  if (count == 3 && strcmp(words[1], "beat") == 0) {
    snprintf(beat_path, sizeof beat_path, "%s", words[2]);
    beat();
  }
  if (count < 4) return 2;
  guard = getppid();
  for (int place = 4; place < count; place++) {
    snprintf(beat_path, sizeof beat_path, "%s/hb.%s", words[1], words[place]);
    if (fork() == 0) trick(words[place]);
    for (double end = now() + 20; access(beat_path, F_OK); pause_ms(5)) {
      if (now() > end) return 8;
    }
  }
  snprintf(path, sizeof path, "%s/%s", words[1], words[2]);
  int file = open(path, O_WRONLY | O_CREAT, 0600);
  if (file < 0 || write(file, "ready\n", 6) != 6) return 9;
  close(file);
  last(words[3]);
  return 0;
}

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bridge.h"

// While there are reads to align, whoever waits for them is notified of several at once: being woken
// for each one costs Go's scheduler a tenth of what aligning it does. Nobody is notified later because
// of a read that is longer than LONG bases.
enum { DONE_TOGETHER = 8, LONG = 20000 };

struct pm_pool {
	const mm_idx_t *mi;
	mm_mapopt_t mo;
	int fd;
	pthread_mutex_t mu;
	pthread_cond_t more;
	pm_job *first, **last; // that wait, oldest first
	pm_job *done;
	int n_done, notified; // notified: a byte says that there are some
	int stopped;
	int n;
	pthread_t thread[];
};

// notify writes a byte to the pool's pipe.
static void notify(pm_pool *p)
{
	char b = 0;
	while (write(p->fd, &b, 1) < 0 && errno == EINTR)
		;
}

static void *work(void *arg)
{
	pm_pool *p = arg;
	mm_tbuf_t *buf = mm_tbuf_init();
	pthread_mutex_lock(&p->mu);
	for (;;) {
		pm_job *job = p->first;
		if (job == NULL) {
			if (p->stopped)
				break;
			pthread_cond_wait(&p->more, &p->mu);
			continue;
		}
		p->first = job->next;
		if (p->first == NULL)
			p->last = &p->first;
		pthread_mutex_unlock(&p->mu);

		job->failed = pm_map(p->mi, &p->mo, buf, job->name, job->seq, job->len, &job->hits) != 0;

		pthread_mutex_lock(&p->mu);
		job->next = p->done;
		p->done = job;
		p->n_done++;
		int enough = p->n_done >= DONE_TOGETHER || p->first == NULL || p->first->len > LONG;
		if (enough && !p->notified) {
			p->notified = 1;
			pthread_mutex_unlock(&p->mu);
			notify(p);
			pthread_mutex_lock(&p->mu);
		}
	}
	pthread_mutex_unlock(&p->mu);
	mm_tbuf_destroy(buf);
	return NULL;
}

pm_pool *pm_pool_start(const mm_idx_t *mi, const mm_mapopt_t *mo, int n, int fd)
{
	pm_pool *p = calloc(1, sizeof(*p) + n * sizeof(p->thread[0]));
	if (p == NULL)
		return NULL;
	p->mi = mi;
	p->mo = *mo;
	p->fd = fd;
	p->last = &p->first;
	pthread_mutex_init(&p->mu, NULL);
	pthread_cond_init(&p->more, NULL);
	// Signals are for the threads that Go knows, but for a thread's own faults, which Go reports before the process
	// ends, and for the clock of its profiles.
	static const int kept[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGPROF};
	sigset_t others, before;
	sigfillset(&others);
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		sigdelset(&others, kept[i]);
	pthread_sigmask(SIG_SETMASK, &others, &before);
	int err = 0;
	for (; p->n < n; p->n++)
		if ((err = pthread_create(&p->thread[p->n], NULL, work, p)) != 0)
			break;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err != 0) {
		pm_pool_stop(p);
		pm_pool_free(p);
		errno = err;
		return NULL;
	}
	return p;
}

int pm_pool_submit(pm_pool *p, uintptr_t caller, const char *name, int name_len, const char *seq, int len)
{
	pm_job *job = malloc(sizeof(*job) + name_len + 1 + len);
	if (job == NULL)
		return -1;
	memset(job, 0, sizeof(*job));
	job->caller = caller;
	job->name = (char *)(job + 1);
	memcpy(job->name, name, name_len);
	job->name[name_len] = 0;
	job->seq = job->name + name_len + 1;
	memcpy(job->seq, seq, len);
	job->len = len;
	pthread_mutex_lock(&p->mu);
	*p->last = job;
	p->last = &job->next;
	pthread_cond_signal(&p->more);
	pthread_mutex_unlock(&p->mu);
	return 0;
}

pm_job *pm_pool_done(pm_pool *p)
{
	pthread_mutex_lock(&p->mu);
	pm_job *done = p->done;
	p->done = NULL;
	p->n_done = p->notified = 0;
	pthread_mutex_unlock(&p->mu);
	return done;
}

void pm_job_free(pm_job *job)
{
	pm_free(&job->hits);
	free(job);
}

void pm_pool_stop(pm_pool *p)
{
	pthread_mutex_lock(&p->mu);
	p->stopped = 1;
	pthread_cond_broadcast(&p->more);
	pthread_mutex_unlock(&p->mu);
	for (int i = 0; i < p->n; i++)
		pthread_join(p->thread[i], NULL);
	p->n = 0;
}

void pm_pool_free(pm_pool *p)
{
	pthread_cond_destroy(&p->more);
	pthread_mutex_destroy(&p->mu);
	free(p);
}

// SPDX-License-Identifier: MIT OR Apache-2.0
// A timer gives ticks to a pool of two threads, which long jobs of clients occupy at times.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

static std::mutex lock;
static std::condition_variable ready;
static std::deque<std::function<void()>> jobs;
static int cycles, late;
static Clock::duration worst;

static void compute(Clock::duration time)
{
	for (auto end = Clock::now() + time; Clock::now() < end;)
		;
}

static void work(const char *name)
{
	pthread_setname_np(pthread_self(), name);
	for (;;) {
		std::unique_lock<std::mutex> guard(lock);
		ready.wait(guard, [] { return !jobs.empty(); });
		auto job = std::move(jobs.front());
		jobs.pop_front();
		guard.unlock();
		job();
	}
}

static void submit(std::function<void()> job)
{
	std::lock_guard<std::mutex> guard(lock);
	jobs.push_back(std::move(job));
	ready.notify_one();
}

int main()
{
	const auto period = 10ms;
	const auto first = Clock::now() + 50ms;
	const sched_param priority = { .sched_priority = 30 };

	sched_setscheduler(0, SCHED_FIFO, &priority);
	std::thread(work, "pool-a").detach();
	std::thread(work, "pool-b").detach();
	pthread_setname_np(pthread_self(), "timers");
	for (int i = 0; i < 500; i++) {
		const auto due = first + i * period;
		std::this_thread::sleep_until(due);
		for (int job = 0; i % 50 == 20 && job < 2; job++)
			submit([] { compute(45ms); });
		submit([due, period] {
			compute(1ms);
			const auto response = Clock::now() - due;
			std::lock_guard<std::mutex> guard(lock);
			cycles++;
			late += response > period;
			worst = std::max<Clock::duration>(worst, response);
		});
	}
	usleep(100000);
	fprintf(stderr, "TRUTH late=%d of %d worst_ms=%.1f\n", late, cycles, worst / 1us / 1e3);
	_exit(0);
}

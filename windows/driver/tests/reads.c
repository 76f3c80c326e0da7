/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Reads by every route: their order, their counts, and the configuration in
 * their samples. */
#include <stdio.h>

#include "control.h"

#include <aclapi.h>
#include <sddl.h>

/* Returns true if the stamps of a read are in order, on both clocks. */
static bool is_in_order(const struct wdmlat_sample *sample)
{
	bool is_followed = sample->follower != WDMLAT_FOLLOWER_NONE;

	if (sample->read_tsc == 0 || sample->read_qpc == 0 || sample->read_tsc >= sample->dpc_tsc ||
	    sample->read_qpc > sample->dpc_qpc)
		return false;
	if (!is_followed)
		return sample->follower_tsc == 0 && sample->follower_qpc == 0;
	return sample->dpc_tsc < sample->follower_tsc && sample->dpc_qpc <= sample->follower_qpc;
}

/* Makes `count` consecutive reads. Returns the number of reads that were
 * served, in order, with the expected configuration and number. */
static unsigned int read_many(HANDLE device, const struct wdmlat_config *config, unsigned int reads,
			      uint32_t cpus)
{
	struct reading reading = {0};
	struct wdmlat_sample *sample = &reading.sample;
	uint64_t before = 0;
	unsigned int good = 0, i;
	DWORD error;

	for (i = 0; i < reads; i++) {
		error = begin_read(device, &reading);
		if (!error)
			error = end_read(device, &reading, DEADLINE_MS);
		forget(&reading);
		if (error) {
			printf("read %u: error %lu\n", i, error);
			/* A pending read writes into `reading`, and the next
			 * one would, too. */
			if (error == WAIT_TIMEOUT)
				CancelIo(device);
			break;
		}
		if (is_in_order(sample) && sample->source == config->source &&
		    sample->dpc == config->dpc && sample->follower == config->follower &&
		    sample->priority == config->priority &&
		    sample->delay_100ns == config->delay_100ns && sample->read_cpu < cpus &&
		    sample->dpc_cpu < cpus && sample->follower_cpu < cpus &&
		    (!before || sample->sequence == before + 1))
			good++;
		else
			printf("read %u: stamps %llu %llu %llu, sequence %llu after %llu\n", i,
			       sample->read_tsc, sample->dpc_tsc, sample->follower_tsc,
			       sample->sequence, before);
		before = sample->sequence;
	}
	return good;
}

static void try_route(HANDLE device, const char *name, const struct wdmlat_config *config,
		      unsigned int reads)
{
	struct wdmlat_info before, after;
	unsigned int good;
	DWORD error = set_when_idle(device, config);

	expect(error == 0, "%s: configured (error %lu)", name, error);
	if (error || get_info(device, &before))
		return;
	expect(memcmp(&before.config, config, sizeof(*config)) == 0, "%s: is told back", name);
	good = read_many(device, config, reads, before.cpus);
	expect(good == reads, "%s: %u of %u reads served in order", name, good, reads);
	if (!get_info(device, &after))
		expect(after.served - before.served == reads && after.armed - before.armed == reads,
		       "%s: counted %llu served of %llu armed", name, after.served - before.served,
		       after.armed - before.armed);
}

/* A feature that the kernel lacks is refused with its name. A present one is
 * measured. */
static void try_optional(HANDLE device, const char *name, const struct wdmlat_config *config,
			 bool is_there, unsigned int reads)
{
	if (is_there) {
		try_route(device, name, config, reads);
		return;
	}
	DWORD error = set_when_idle(device, config);

	expect(error == ERROR_NOT_SUPPORTED, "%s: this kernel has none, error %lu", name, error);
}

/* Only the system and administrators may open it. Wine's handle does not expose
 * the rights of its device. There, life.py reads them in the log of Wine's
 * server. */
static void try_rights(HANDLE device)
{
	PSECURITY_DESCRIPTOR descriptor;
	char *text = NULL;
	DWORD error;

	if (is_wine())
		return;
	error = GetSecurityInfo(device, SE_FILE_OBJECT, DACL_SECURITY_INFORMATION, NULL, NULL, NULL,
				NULL, &descriptor);
	if (!error && !ConvertSecurityDescriptorToStringSecurityDescriptorA(
			      descriptor, SDDL_REVISION_1, DACL_SECURITY_INFORMATION, &text, NULL))
		error = GetLastError();
	expect(!error && strcmp(text, "D:(A;;FA;;;SY)(A;;FA;;;BA)") == 0,
	       "its rights are those of the system and administrators: %s, error %lu",
	       text ? text : "none", error);
}

/* Wine's KeInsertQueueDpc does not queue a DPC. There the read waits until it
 * is cancelled, and the driver stays busy until it is unloaded. */
void try_queue(void)
{
	struct wdmlat_config config = plain(0);
	struct reading reading = {0};
	DWORD error;
	HANDLE device = open_device(&error);

	config.source = WDMLAT_SOURCE_QUEUE;
	if (!is_wine()) {
		try_route(device, "DPC queued by hand", &config, 100);
		CloseHandle(device);
		return;
	}
	error = set_when_idle(device, &config);
	expect(error == 0, "DPC queued by hand: configured (error %lu)", error);
	error = begin_read(device, &reading);
	expect(error == 0, "DPC queued by hand: a read begins (error %lu)", error);
	CancelIo(device);
	error = end_read(device, &reading, DEADLINE_MS);
	forget(&reading);
	expect(error == ERROR_OPERATION_ABORTED, "DPC queued by hand: cancelled, error %lu", error);
	CloseHandle(device);
}

void try_reads(unsigned int reads)
{
	struct wdmlat_config config = plain(1000);
	struct wdmlat_info info;
	DWORD error;
	HANDLE device = open_device(&error);

	expect(error == 0, "the device opens (error %lu)", error);
	if (error)
		return;
	error = get_info(device, &info);
	expect(error == 0 && info.version == WDMLAT_VERSION, "it tells version %u of itself",
	       WDMLAT_VERSION);
	if (error)
		return;
	expect(info.qpc_per_s > 0 && info.cpus > 0 && info.armed == 0, "a new driver: %u CPUs, "
	       "%llu ticks/s, nothing armed", info.cpus, info.qpc_per_s);
	expect(memcmp(&info.config, &config, sizeof(config)) == 0, "it begins as the papers did");
	try_rights(device);

	try_route(device, "thread:24", &config, reads);
	config.priority = 28;
	config.importance = WDMLAT_IMPORTANCE_HIGH;
	config.cpu = 0;
	try_route(device, "thread:28, importance high, CPU 0", &config, reads);
	config = plain(1000);
	config.follower = WDMLAT_FOLLOWER_WORK_ITEM;
	try_route(device, "work item", &config, reads);
	config.follower = WDMLAT_FOLLOWER_NONE;
	try_route(device, "DPC alone", &config, reads);

	config = plain(1000);
	config.dpc = WDMLAT_DPC_THREADED;
	try_optional(device, "threaded DPC", &config, info.abilities & WDMLAT_CAN_THREADED, reads);
	config = plain(1000);
	config.source = WDMLAT_SOURCE_HIGH_RES;
	try_optional(device, "high resolution", &config, info.abilities & WDMLAT_CAN_HIGH_RES, reads);
	CloseHandle(device);
}

/* NVIDIA's management library with eight H100 that are not there: what paravt-bench asks of it (backends/devices).
 *
 *     cc -shared -fPIC -o libnvidia-ml.so.1 nvml_stub.c
 *
 * A function that is not here is one that the driver does not have, as MIG on a consumer's card.
 */
#include <stdio.h>

#define GPUS 8
#define MIB (1ULL << 20)

typedef struct {
    unsigned int version;
    unsigned long long total, reserved, free, used;
} Memory;

static unsigned int number(void *device) { return (unsigned int)(unsigned long)device - 1; }

int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return code ? "an error" : "success"; }

/* 12.8 */
int nvmlSystemGetCudaDriverVersion_v2(int *version) { return *version = 12080, 0; }

int nvmlSystemGetDriverVersion(char *text, unsigned int length) {
    return snprintf(text, length, "570.124.06"), 0;
}

int nvmlDeviceGetCount_v2(unsigned int *count) { return *count = GPUS, 0; }

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device) {
    return *device = (void *)(unsigned long)(index + 1), index < GPUS ? 0 : 2;
}

int nvmlDeviceGetUUID(void *device, char *text, unsigned int length) {
    return snprintf(text, length, "GPU-%08x-0000-0000-0000-000000000000", number(device)), 0;
}

int nvmlDeviceGetName(void *device, char *text, unsigned int length) {
    return (void)device, snprintf(text, length, "NVIDIA H100 80GB HBM3"), 0;
}

int nvmlDeviceGetMemoryInfo_v2(void *device, Memory *memory) {
    (void)device;
    memory->total = 81559 * MIB, memory->reserved = 550 * MIB, memory->used = 0;
    memory->free = memory->total - memory->reserved;
    return 0;
}

int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) {
    return (void)device, *major = 9, *minor = 0, 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *count, void *processes) {
    return (void)device, (void)processes, *count = 0, 0;
}

int nvmlDeviceGetTotalEccErrors(void *device, int kind, int counter, unsigned long long *errors) {
    return (void)device, (void)kind, (void)counter, *errors = 0, 0;
}

int nvmlDeviceGetNvLinkState(void *device, unsigned int link, int *is_up) {
    return (void)device, (void)link, *is_up = 1, 0;
}

int nvmlDeviceGetP2PStatus(void *device, void *other, int index, int *status) {
    return (void)device, (void)other, (void)index, *status = 0, 0;
}

/* Opening the CUDA driver and a device. A machine without a driver, with the toolkit's stub of it, or without
 * a GPU is an ordinary case: each gives a sentence, none a crash. */
#include "runtime/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

bool driver_open(Driver *driver, const char *library, char why[DRIVER_WHY_ROOM]) {
    memset(driver, 0, sizeof *driver);
    const char *name = library ? library : "libcuda.so.1";
    driver->library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!driver->library) {
        snprintf(why, DRIVER_WHY_ROOM, "the CUDA driver is missing (%s)", dlerror());
        return false;
    }
    const char *missing = NULL;
#define DRIVER(FIELD, SYMBOL, PARAMS)                                                                        \
    *(void **)&driver->FIELD = dlsym(driver->library, #SYMBOL);                                              \
    if (!driver->FIELD && !missing)                                                                          \
        missing = #SYMBOL;
#include "runtime/driver.def"
#undef DRIVER
    if (missing) {
        snprintf(why, DRIVER_WHY_ROOM, "%s has no %s: a driver of CUDA 12.0 or later is needed", name,
                 missing);
        driver_close(driver);
        return false;
    }
    CUresult error = driver->init(0);
    if (error) { /* 34 is what the toolkit's stub library answers */
        driver_explain(driver, error, "the CUDA driver did not start", why, DRIVER_WHY_ROOM);
        driver_close(driver);
        return false;
    }
    int count = 0;
    if (driver->device_count(&count) || count == 0) {
        snprintf(why, DRIVER_WHY_ROOM, "the CUDA driver sees no GPU");
        driver_close(driver);
        return false;
    }
    driver->driver_version(&driver->version);
    return true;
}

void driver_close(Driver *driver) {
    if (driver->library)
        dlclose(driver->library);
    memset(driver, 0, sizeof *driver);
}

void driver_explain(const Driver *driver, CUresult error, const char *what, char *why, size_t room) {
    const char *name = NULL, *text = NULL;
    if (driver->error_name)
        driver->error_name(error, &name);
    if (driver->error_string)
        driver->error_string(error, &text);
    snprintf(why, room, "%s: %s (%d), %s", what, name ? name : "CUDA error", (int)error,
             text ? text : "no text for it");
}

bool device_open(const Driver *driver, int ordinal, Device *device, char why[DRIVER_WHY_ROOM]) {
    memset(device, 0, sizeof *device);
    int count = 0;
    driver->device_count(&count);
    if (ordinal < 0 || ordinal >= count) {
        snprintf(why, DRIVER_WHY_ROOM, "device %d does not exist: there are %d", ordinal, count);
        return false;
    }
    device->ordinal = ordinal;
    CUresult error = driver->device_get(&device->device, ordinal);
    const struct {
        CUdevice_attribute attribute;
        int *to;
    } wanted[] = {
        {DRIVER_ATTRIBUTE_MAJOR, &device->major},
        {DRIVER_ATTRIBUTE_MINOR, &device->minor},
        {DRIVER_ATTRIBUTE_SM_COUNT, &device->sm_count},
        {DRIVER_ATTRIBUTE_L2_BYTES, &device->l2_bytes},
        {DRIVER_ATTRIBUTE_CLOCK_KHZ, &device->clock_khz},
        {DRIVER_ATTRIBUTE_SHARED_OPTIN, &device->shared_optin},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted && !error; i++)
        error = driver->device_attribute(wanted[i].to, wanted[i].attribute, device->device);
    /* which not every device tells: they stay 0 then */
    (void)driver->device_attribute(&device->memory_khz, DRIVER_ATTRIBUTE_MEMORY_KHZ, device->device);
    (void)driver->device_attribute(&device->bus_bits, DRIVER_ATTRIBUTE_BUS_BITS, device->device);
    if (!error)
        error = driver->device_name(device->name, (int)sizeof device->name, device->device);
    if (!error)
        error = driver->device_total_memory(&device->memory_bytes, device->device);
    if (!error)
        error = driver->primary_retain(&device->context, device->device);
    if (error) {
        driver_explain(driver, error, "the device could not be opened", why, DRIVER_WHY_ROOM);
        device->context = NULL;
        return false;
    }
    return true;
}

void device_close(const Driver *driver, Device *device) {
    if (device->context)
        driver->primary_release(device->device);
    device->context = NULL;
}

CUresult device_enter(const Driver *driver, const Device *device, bool *pushed) {
    CUcontext current = NULL;
    *pushed = false;
    CUresult error = driver->context_current(&current);
    if (error || current == device->context)
        return error;
    error = driver->context_push(device->context);
    *pushed = !error;
    return error;
}

void device_leave(const Driver *driver, bool pushed) {
    CUcontext popped;
    if (pushed)
        driver->context_pop(&popped);
}

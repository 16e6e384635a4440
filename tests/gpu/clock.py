"""The SM clock while something runs, from NVML: a GPU that throttles shows here, and a time without its clock says little."""
import ctypes
import threading
import time


class Clock:
    """`with clock: ...` samples; clock.mhz() is the median of the last time, None where there is no NVML."""

    def __init__(self, device=0):
        self.samples, self.handle, self.lib = [], ctypes.c_void_p(), None
        try:
            lib = ctypes.CDLL("libnvidia-ml.so.1")
            if lib.nvmlInit_v2() == 0 and lib.nvmlDeviceGetHandleByIndex_v2(device, ctypes.byref(self.handle)) == 0:
                self.lib = lib
        except OSError:
            pass

    def _sample(self):
        mhz = ctypes.c_uint()
        while not self.stop:
            if self.lib.nvmlDeviceGetClockInfo(self.handle, 1, ctypes.byref(mhz)) == 0:  # 1: the SMs
                self.samples.append(mhz.value)
            time.sleep(0.005)

    def __enter__(self):
        self.samples, self.stop, self.thread = [], False, None
        if self.lib:
            self.thread = threading.Thread(target=self._sample)
            self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop = True
        if self.thread:
            self.thread.join()

    def mhz(self):
        return sorted(self.samples)[len(self.samples) // 2] if self.samples else None

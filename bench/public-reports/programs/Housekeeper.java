// SPDX-License-Identifier: MIT OR Apache-2.0

import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/** The housekeeper of a pool shares its executor with a task that sometimes takes long. */
class Housekeeper {
    static int cycles, late;
    static long worst, due;

    public static void main(String[] arguments) throws Exception {
        var executor = Executors.newSingleThreadScheduledExecutor(task -> new Thread(task, "housekeeper"));
        long period = 20_000_000;
        Runnable housekeeper = () -> {
            long response = System.nanoTime() - due;
            due += period;
            if (++cycles > 250) {
                System.err.printf("TRUTH late=%d of %d worst_ms=%.1f%n", late, cycles - 1, worst / 1e6);
                Runtime.getRuntime().halt(0);
            }
            if (response > 10_000_000) late++;
            worst = Math.max(worst, response);
        };
        Runnable report = () -> {
            long end = System.nanoTime() + 45_000_000;
            while (System.nanoTime() < end) { }
        };
        // Two cycles are late in each report, by 33 and 13 ms.
        due = System.nanoTime() + 200_000_000;
        executor.scheduleAtFixedRate(housekeeper, 200_000_000, period, TimeUnit.NANOSECONDS);
        executor.scheduleAtFixedRate(report, 308_000_000, 400_000_000, TimeUnit.NANOSECONDS);
        Thread.currentThread().join();
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
import java.util.ArrayList;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/** A collection of garbage stops the thread of a periodic task. */
class GcPause {
    static final long PERIOD = 10_000_000, DEADLINE = 10_000_000;
    static int cycles, late;
    static long worst, due;

    static void tick() {
        long now = System.nanoTime();
        if (due == 0) {
            due = now;
        }
        cycles++;
        if (now - due > DEADLINE) {
            late++;
        }
        worst = Math.max(worst, now - due);
        due += PERIOD;
        if (cycles == 400) {
            System.err.printf("TRUTH late=%d of %d worst_ms=%.1f%n", late, cycles, worst / 1e6);
            Runtime.getRuntime().halt(0);
        }
    }

    public static void main(String[] arguments) throws InterruptedException {
        var keep = new ArrayList<Object[]>();
        for (int i = 0; i < 1_000_000; i++) {
            keep.add(new Object[4]);
        }
        var executor = Executors.newSingleThreadScheduledExecutor(
            task -> new Thread(task, "ticker"));
        executor.scheduleAtFixedRate(GcPause::tick, 100, 10, TimeUnit.MILLISECONDS);
        while (!keep.isEmpty()) {
            Thread.sleep(400);
            System.gc();
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
import java.util.Timer;
import java.util.TimerTask;
import java.util.concurrent.ArrayBlockingQueue;

/** A task of a timer waits for a full queue; the other task of the same timer is late. */
class BackPressure {
    static final long PERIOD = 20_000_000, DEADLINE = 10_000_000;
    static int cycles, late;
    static long worst, due;

    static TimerTask task(Runnable run) {
        return new TimerTask() {
            public void run() {
                run.run();
            }
        };
    }

    static void heartbeat() {
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
        if (cycles == 250) {
            System.err.printf("TRUTH late=%d of %d worst_ms=%.1f%n", late, cycles, worst / 1e6);
            Runtime.getRuntime().halt(0);
        }
    }

    public static void main(String[] arguments) throws InterruptedException {
        var queue = new ArrayBlockingQueue<Integer>(1);
        var timer = new Timer("timer");
        timer.scheduleAtFixedRate(task(BackPressure::heartbeat), 100, 20);
        timer.scheduleAtFixedRate(task(() -> {
            try {
                queue.put(1);
                queue.put(2);
                queue.put(3);
            } catch (InterruptedException interrupted) {
                throw new IllegalStateException(interrupted);
            }
        }), 105, 500);
        for (;;) {
            queue.take();
            Thread.sleep(60);
        }
    }
}

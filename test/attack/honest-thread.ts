/** Runs the honest clients on a thread of their own, so that they wait for the server and not for the attacker. */
import { once } from "node:events";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { type Asked, askHonestly, type HonestReport } from "./honest.ts";
import type { Target } from "./target.ts";

/** {@link askHonestly} on another thread. */
export interface HonestThread {
  mark(): void;
  take(): Promise<HonestReport>;
  /** Waits for outstanding answers. Resolves to the report since the last one. */
  stop(): Promise<HonestReport>;
  /** Ends the thread, whatever it does. */
  end(): Promise<void>;
}

type Wish = "mark" | "take" | "stop";

/** Begins to ask. */
export function askFromAfar({ plain, tls, namespace, podName }: Target): HonestThread {
  const pods = [podName("a", 0), podName("b", 1)];
  const asked: Asked = { plainPort: plain.port, tlsPort: tls.port, ca: tls.ca ?? "", namespace, pods };
  const thread = new Worker(new URL(import.meta.url), { workerData: asked });
  const report = async (wish: Wish): Promise<HonestReport> => {
    const [status] = await Promise.all([once(thread, "message"), thread.postMessage(wish)]);
    return status[0] as HonestReport;
  };
  return {
    mark: () => thread.postMessage("mark" satisfies Wish),
    take: () => report("take"),
    stop: () => report("stop"),
    end: async () => void (await thread.terminate()),
  };
}

if (!isMainThread && parentPort !== null) {
  const port = parentPort;
  const honest = askHonestly(workerData as Asked);
  port.on("message", async (wish: Wish) => {
    if (wish === "mark") return honest.mark();
    if (wish === "stop") await honest.stop();
    port.postMessage(honest.take());
  });
}

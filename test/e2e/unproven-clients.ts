/** Clients that reach the port of the webhooks and do not know the key, in a thread of their own. */
import { once } from "node:events";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { Pool } from "undici";

export interface Strange {
  readonly port: number;
  readonly ca: string;
  /** Each is asked as often as any other. */
  readonly requests: readonly { readonly path: string; readonly body: string }[];
  readonly times: number;
}

/** How often each answer came, status and headers included; a connection that ended without one counts as `none`. */
export type Answers = Readonly<Record<string, number>>;

/** From another address than the honest ones, over no more connections than unproven clients have places. */
const from = { localAddress: "127.0.0.3", connections: 80, pipelining: 8 };

/** Resolves when all requests are answered. */
export async function askUnproven(strange: Strange): Promise<Answers> {
  const thread = new Worker(new URL(import.meta.url), { workerData: strange });
  const [answers] = await once(thread, "message");
  await thread.terminate();
  return answers;
}

async function ask({ port, ca, requests, times }: Strange): Promise<Answers> {
  const { localAddress, connections, pipelining } = from;
  const connect = { ca, localAddress, servername: "localhost" };
  const pool = new Pool(`https://127.0.0.1:${port}`, { connections, pipelining, allowH2: false, connect });
  const answers: Record<string, number> = {};
  let begun = 0;
  const headers = { "content-type": "application/json" };
  const one = async (): Promise<void> => {
    while (begun < times) {
      const { path, body } = requests[begun++ % requests.length] ?? { path: "/", body: "" };
      let outcome = "none";
      try {
        const answer = await pool.request({ method: "POST", path, body, headers, idempotent: true });
        const { date: _, ...rest } = answer.headers;
        outcome = `${answer.statusCode} ${JSON.stringify(rest)} ${await answer.body.text()}`;
      } catch {}
      answers[outcome] = (answers[outcome] ?? 0) + 1;
    }
  };
  await Promise.all(Array.from({ length: connections * pipelining }, one));
  await pool.destroy();
  return answers;
}

if (!isMainThread) parentPort?.postMessage(await ask(workerData as Strange));

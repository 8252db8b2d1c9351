/** CloudEvents as Knative's sources post them, and as any other client may. */
import { Pool } from "undici";
import type { Server } from "./server.ts";

/** Headers in binary mode. `extensions` may replace any header. */
export function headersOf(type: string, extensions: Readonly<Record<string, string>> = {}): Record<string, string> {
  return {
    "content-type": "application/json",
    "ce-specversion": "1.0",
    "ce-id": crypto.randomUUID(),
    "ce-source": "https://10.0.0.1:443",
    "ce-type": type,
    ...extensions,
  };
}

/** Resolves to the status. */
export async function post(
  { url }: Pick<Server, "url">,
  headers: Readonly<Record<string, string>>,
  body: string | Uint8Array<ArrayBuffer> = "{}",
): Promise<number> {
  const answer = await fetch(url, { method: "POST", headers, body });
  await answer.text();
  return answer.status;
}

/** A change as an ApiServerSource in Reference mode reports it. */
export function changed(kind: string, namespace: string, name: string): Record<string, string> {
  const ofObject = { "ce-kind": kind, "ce-namespace": namespace, "ce-name": name };
  return headersOf("dev.knative.apiserver.ref.update", ofObject);
}

export const tick = headersOf("dev.knative.sources.ping");

/**
 * Posts events while `goesOn`, 64 at once, as fast as the server takes them. Resolves to the number of answers for each
 * status.
 */
export async function flood(
  { url }: Pick<Server, "url">,
  goesOn: (posted: number) => boolean,
  headersAt: (event: number) => Record<string, string>,
): Promise<Record<number, number>> {
  const pool = new Pool(url, { connections: 16, pipelining: 4 });
  const statuses: Record<number, number> = {};
  let next = 0;
  const work = async (): Promise<void> => {
    while (goesOn(next)) {
      const headers = headersAt(next++);
      const { statusCode, body } = await pool.request({ method: "POST", path: "/", headers, body: "{}" });
      await body.dump();
      statuses[statusCode] = (statuses[statusCode] ?? 0) + 1;
    }
  };
  try {
    await Promise.all(Array.from({ length: 64 }, work));
  } finally {
    await pool.close();
  }
  return statuses;
}

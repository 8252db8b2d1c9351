/** The journal that the processes of all pods write: `EVENT PID MS POD` for each event. */
import { readFile } from "node:fs/promises";

export interface ProcessEvent {
  /** "start", "stopping" or "stop". */
  readonly event: string;
  /** Of the pod. */
  readonly name: string;
  /** Since 1970. */
  readonly atMs: number;
}

/** All events, in the order in which they happened. */
export async function readEvents(path: string): Promise<readonly ProcessEvent[]> {
  const lines = (await readFile(path, "utf8")).split("\n").filter(Boolean);
  return lines.map((line) => {
    const [event = "", , atMs, name = ""] = line.split(" ");
    return { event, name, atMs: Number(atMs) };
  });
}

/** How long each of these pods has had no process between its last two, in milliseconds. */
export function downMsIn(events: readonly ProcessEvent[], names: readonly string[]): readonly number[] {
  return names.map((name) => {
    const lastOf = (event: string) => events.findLast((one) => one.event === event && one.name === name)?.atMs;
    return (lastOf("start") ?? Number.NaN) - (lastOf("stop") ?? Number.NaN);
  });
}

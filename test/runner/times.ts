/** How long each test file took the last time on this machine. Without the file nothing is known, and nothing is lost. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

export type Times = Map<string, number>;

export function readTimes(path: string): Times {
  try {
    const read: unknown = JSON.parse(readFileSync(path, "utf8"));
    const entries = Object.entries(read ?? {}).filter(([, ms]) => typeof ms === "number");
    return new Map(entries as [string, number][]);
  } catch {
    return new Map();
  }
}

export function writeTimes(path: string, times: Times): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, JSON.stringify(Object.fromEntries(times)));
}

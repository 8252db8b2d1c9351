/** A process that posts reviews of pods that do not exist, and reports how many were answered. It ends with its parent. */
import { Load } from "./load.ts";

export interface ForgerOptions {
  readonly reviewsUrl: string;
  readonly ca: string;
  readonly namespace: string;
  readonly inFlight: number;
}

const reportEveryMs = 100;
/** More names than a server would remember. */
const names = 100_000;

const { reviewsUrl, ca, namespace, inFlight } = JSON.parse(process.argv[2] ?? "{}") as ForgerOptions;
const pods = Array.from({ length: names }, (_, index) => ({ name: `absent-${index}`, namespace, uid: "", zone: "" }));
/** Reviews on one connection: a server accepts only a limited number of connections, and of reviews on each. */
const pipelining = 12;
const setting = { reviewsUrl, ca, pods, signal: new AbortController().signal };
const load = new Load(setting, Math.ceil(inFlight / pipelining), pipelining);
let answered = 0;
setInterval(() => process.send?.(answered), reportEveryMs);
process.on("disconnect", () => process.exit(0));
await load.run({
  inFlight,
  isDryRun: () => false,
  enough(count) {
    answered = count;
    return false;
  },
});

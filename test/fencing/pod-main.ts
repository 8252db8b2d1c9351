/** The process of a played pod: it appends a line to the journal every 20 ms, for as long as its machine runs. */
import { appendFileSync, readFileSync } from "node:fs";
import { lineOf } from "./journal.ts";

const [journal = "", pod = "", uid = "", node = ""] = process.argv.slice(2);
const bootId = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
const write = () => {
  const ms = Number(process.hrtime.bigint()) / 1e6;
  appendFileSync(journal, lineOf({ pod, uid, node, bootId }, String(process.pid), ms));
};
write();
setInterval(write, 20);

/** Loaded before a program of the product: its wall clock is the one that a test has set. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { clockFolderVariable, clockOfFunction } from "./wall-clocks.ts";

const { [clockFolderVariable]: folder = "", NODE_NAME: name = clockOfFunction } = process.env;
const file = join(folder, name);

/** A clock that no test has set is right. */
function aheadMs(): number {
  try {
    return Number(readFileSync(file, "utf8"));
  } catch {
    return 0;
  }
}

const RightDate = Date;
const handler: ProxyHandler<DateConstructor> = {
  construct(target, args: [], newTarget) {
    return Reflect.construct(target, args.length === 0 ? [RightDate.now() + aheadMs()] : args, newTarget) as Date;
  },
  get(target, key) {
    return key === "now" ? () => RightDate.now() + aheadMs() : (Reflect.get(target, key) as unknown);
  },
};
globalThis.Date = new Proxy(RightDate, handler);

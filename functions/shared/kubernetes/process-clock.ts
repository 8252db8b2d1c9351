/** The clock of this process: one for all deadlines, of reviews, acts and requests alike, because they are compared. */
import { SteadyClock } from "./steady-clock.ts";

export const processClock = new SteadyClock({
  monotonicMs: () => performance.now(),
  wallMs: () => Date.now(),
});

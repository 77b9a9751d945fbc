import { useEffect } from "react";
import { useInbox, useLiveInbox } from "./queries.js";

/** Follows the inbox, and reports the number of its items. It renders nothing. */
export function InboxCount({ onCount }: { readonly onCount: (count: number | undefined) => void }) {
  const inbox = useInbox(true);
  useLiveInbox(true);
  const count = inbox.data?.items.length;
  useEffect(() => onCount(count), [count, onCount]);
  return null;
}

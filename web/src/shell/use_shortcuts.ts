import { useEffect, useRef } from "react";
import { useLocation } from "wouter";
import { isWriting, sequence, type Pressed } from "./navigation.js";

/** Opens views by `g` and a letter. */
export function useGoTo(): void {
  const [, navigate] = useLocation();
  const pressed = useRef<Pressed>(undefined);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (isWriting(event)) return;
      const next = sequence(pressed.current, event.key, event.timeStamp);
      pressed.current = next.pressed;
      if (next.path !== undefined) {
        event.preventDefault();
        navigate(next.path);
      }
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [navigate]);
}

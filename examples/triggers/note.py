def main(event):
    return {"type": event["type"], "what": event.get("subject") or event["data"]}

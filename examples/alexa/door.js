exports.main = ({ on }) => ({ state: on ? 'open' : 'closed' });
